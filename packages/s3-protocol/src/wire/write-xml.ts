/** Content of an element: text, a number or a flag, child elements by name, or an array that repeats the element. */
type XmlContent = string | number | boolean | Date | XmlElements | readonly (string | XmlElements)[] | undefined
export interface XmlElements {
  readonly [name: string]: XmlContent
}

const escapes: Readonly<Record<string, string>> = { '<': '&lt;', '>': '&gt;', '&': '&amp;', '"': '&quot;' }

/**
 * Escapes text. Line breaks are written as references, since a parser would otherwise normalize them. So are characters that XML
 * 1.0 cannot carry, such as U+0001 in a key: AWS and radosgw write `&#x1;` too. A strict parser rejects such a document, which is
 * better than showing a key that does not exist; its client can list with `encoding-type=url`.
 */
export const xmlText = (text: string): string =>
  text
    .replaceAll(/[<>&"]/g, (c) => escapes[c] as string)
    .replaceAll(
      /[^\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu,
      (c) => `&#x${(c.codePointAt(0) as number).toString(16)};`,
    )

function write(name: string, content: XmlContent): string {
  if (content === undefined) return ''
  if (Array.isArray(content)) return content.map((item: string | XmlElements) => write(name, item)).join('')
  if (content instanceof Date) return `<${name}>${content.toISOString()}</${name}>`
  if (typeof content === 'object') return `<${name}>${writeAll(content as XmlElements)}</${name}>`
  return `<${name}>${xmlText(String(content))}</${name}>`
}

const writeAll = (elements: XmlElements): string =>
  Object.entries(elements)
    .map(([name, content]) => write(name, content))
    .join('')

export const XML_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
const NAMESPACE = 'http://s3.amazonaws.com/doc/2006-03-01/'

/** Writes an S3 document: text, or elements in the given order; undefined ones are left out and arrays repeat their element. */
export const writeXml = (root: string, content: XmlElements | string): string =>
  `${XML_DECLARATION}<${root} xmlns="${NAMESPACE}">${typeof content === 'string' ? xmlText(content) : writeAll(content)}</${root}>`
