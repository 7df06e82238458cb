"""Pictures: from the bytes of a file to what an image-text model takes."""
