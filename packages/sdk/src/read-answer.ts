/** The body of an answer as its type says: JSON, text or a Blob; undefined without a type (204). Throws where it ends early. */
export async function readAnswer(answer: Response): Promise<unknown> {
  const type = answer.headers.get('content-type')
  if (!type) return undefined
  if (/^text\/(html|event)/.test(type)) throw new Error(`"${type}" is not JSON`)
  if (!/json|^text/.test(type)) return answer.blob()
  const text = await answer.text()
  if (type.startsWith('text')) return text
  try {
    return JSON.parse(text)
  } catch {
    // The parser's own error quotes the text, which may hold a secret.
    throw new Error('not JSON')
  }
}
