"""`toolgate chat`: a chat in the terminal, with tools that run here."""
