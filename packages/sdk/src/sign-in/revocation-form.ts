/** Asks an identity provider to revoke a refresh token, with its family, whichever generation it is (RFC 7009; D62). */
export const revocationForm = (clientId: string, refreshToken: string): URLSearchParams =>
  new URLSearchParams({ token: refreshToken, token_type_hint: 'refresh_token', client_id: clientId })
