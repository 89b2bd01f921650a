"""Sections: the facts in words, charts and tables. Each section is a dataclass that names its template in ``page/``."""
