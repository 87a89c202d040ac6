"""The command line `teir`: one file per command, `main` puts them together."""
