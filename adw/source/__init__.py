"""Text that people write (workflow files, adw.yaml, front matter) to values with places."""
