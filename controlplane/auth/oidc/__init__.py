"""People sign in at an issuer: the authorization code flow of OpenID Connect Core 1.0 with PKCE."""
