/** Stands for the secret in a text. */
export const SECRET = '{secret}'

/**
 * A secret for as long as it is shown. Preact keeps trees that it drew before, with all that is in them, so none holds the secret: elements
 * are filled and emptied by hand, and what is copied is filled in when it is copied.
 */
export interface ShownSecret {
  /** A text with the secret in its place; once the secret is forgotten, with nothing there. */
  fill(text: string): string
  forget(): void
}

export function holdSecret(secret: string): ShownSecret {
  let held = secret
  return {
    fill: (text) => text.replaceAll(SECRET, () => held),
    forget() {
      held = ''
    },
  }
}
