"""How each kind of destination is spoken to: one class a kind, of one face (`channel.Channel`)."""
