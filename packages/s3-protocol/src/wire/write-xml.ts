/** What an element may hold: text, numbers and flags, further elements by name, or several of one name. */
export type XmlContent = string | number | boolean | Date | XmlElements | readonly (string | XmlElements)[] | undefined
export interface XmlElements {
  readonly [name: string]: XmlContent
}

const escapes: Readonly<Record<string, string>> = { '<': '&lt;', '>': '&gt;', '&': '&amp;', '"': '&quot;' }

/**
 * Text as XML 1.0 carries it. Line breaks are written as references, or a parser would fold them. What XML cannot carry at
 * all, such as U+0001 in a key, becomes U+FFFD: a list with one such key stays readable, and whoever needs that key lists
 * with `encoding-type=url`.
 */
export const xmlText = (text: string): string =>
  text
    .replaceAll(/[<>&"]/g, (c) => escapes[c] as string)
    .replaceAll(/[\t\n\r]/g, (c) => `&#${c.charCodeAt(0)};`)
    .replaceAll(/[^\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '\ufffd')

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

/** An S3 document: text, or elements in the order given, those that are undefined left out, arrays repeated under one name. */
export const writeXml = (root: string, content: XmlElements | string): string =>
  `${XML_DECLARATION}<${root} xmlns="${NAMESPACE}">${typeof content === 'string' ? xmlText(content) : writeAll(content)}</${root}>`
