"""SFGC and GEOM: synthetic nodes on which students follow the training trajectories of experts."""
