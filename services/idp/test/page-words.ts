/** What a person reads in a piece of a page. Exact times are left out: they show only while they are pointed at. */
export const words = (markup = ''): string =>
  markup
    .replaceAll(/<span class="exact">.*?<\/span>/gs, '')
    .replaceAll(/<[^>]*>/g, '')
    .replaceAll(/\s+/g, ' ')
    .trim()

/** The terms of a page's list of facts, and what it says of each. */
export const termsOf = (body: string): Record<string, string> =>
  Object.fromEntries(
    [...body.matchAll(/<dt>(.*?)<\/dt>\s*<dd>(.*?)<\/dd>/gs)].map(([, term, text]) => [words(term), words(text)]),
  )

/** The buttons of a page with the decision that each sends; a quiet one is not filled. */
export const decisionsOf = (body: string) =>
  [...body.matchAll(/<button\b([^>]*)>([^<]*)</g)].map(([, attributes = '', text]) => ({
    text,
    decision: /name="decision" value="(\w+)"/.exec(attributes)?.[1],
    isQuiet: /class="[^"]*\bsecond\b/.test(attributes),
  }))
