"""Settings of all designs: validated types, classes, readers, schemas and protocols."""
