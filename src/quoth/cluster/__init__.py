"""Ray, and nothing else imports it: what takes long, on more than one machine."""
