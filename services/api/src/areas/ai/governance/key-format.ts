/** A provider's key: characters that a header can carry. */
export const PROVIDER_KEY = /^[\x21-\x7e]{1,4096}$/
