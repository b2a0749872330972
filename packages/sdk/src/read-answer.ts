/** The body of an answer as its type says: JSON, text or a Blob; undefined for 204. Throws where the body ends early. */
export async function readAnswer(answer: Response): Promise<unknown> {
  if (answer.status === 204) return undefined
  const type = answer.headers.get('content-type') ?? ''
  if (/^(text\/(html|event)|$)/.test(type)) throw new Error(`"${type}" is no document`)
  if (!/json|^text/.test(type)) return answer.blob()
  const text = await answer.text()
  if (type.startsWith('text')) return text
  try {
    return JSON.parse(text)
  } catch {
    // The parser's own error quotes the text, which may hold a secret.
    throw new Error('half a document')
  }
}
