"""Every op, declared once, one file a family; an op shares its file with its adjoint."""
