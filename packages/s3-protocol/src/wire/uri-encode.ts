/** Percent-encodes as SigV4 does: every character but A–Z a–z 0–9 - . _ ~ */
export const uriEncode = (text: string): string =>
  encodeURIComponent(text).replaceAll(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)
