"""A module per form a graph can come in: npz, folders of arrays, tables, GraphML, and other libraries' objects."""
