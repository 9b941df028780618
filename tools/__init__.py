"""Set-up scripts that the Makefile calls; nothing here is needed at run time."""
