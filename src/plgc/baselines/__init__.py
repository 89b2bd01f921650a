"""The reference methods of the field, each in its own file: what a condensed graph is measured against."""
