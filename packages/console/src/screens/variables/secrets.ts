/**
 * The same text with memory of its own. A part that was cut out of a string keeps all of that string in memory, and with it the secrets
 * beside it.
 */
export const copyOf = (text: string): string => new TextDecoder().decode(new TextEncoder().encode(text))

/** Empties a field, so that whatever still holds the element holds no secret. */
export function erase(field: HTMLTextAreaElement): void {
  field.value = ''
  field.defaultValue = ''
}
