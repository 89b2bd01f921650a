"""The whole story on a graph that is made on the spot, with a picture. It may know all but the command line."""
