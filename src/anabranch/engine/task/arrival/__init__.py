"""What comes to a slot: rows on the wire, who may enter, where rows go on."""
