/** A UUIDv7: it works on pages without TLS too, where `crypto.randomUUID` is missing. */
export function uuidV7(): string {
  const random = crypto.getRandomValues(new Uint8Array(10))
  const hex =
    Date.now().toString(16).padStart(12, '0') +
    Array.from(random, (byte) => (byte | 256).toString(16).slice(1)).join('')
  return hex.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*/, '$1-$2-7$3-8$4-$5')
}
