import { SaxesParser } from 'saxes'
import { s3Failure } from './s3-failure.ts'

/** No S3 document is nested deeper than this. */
const DEPTH_MAX = 8

/** An element: its own text, and its children in order. Names have no namespace prefix. */
export interface XmlNode {
  name: string
  text: string
  children: XmlNode[]
}

const localName = (name: string): string => name.slice(name.indexOf(':') + 1)

/**
 * Reads an untrusted document. It must be well-formed and without a document type, so nothing is expanded or fetched.
 * elementsMax: the maximum number of elements. The caller limits the bytes.
 *
 * Throws MalformedXML.
 */
export function readXml(body: Buffer, root: string, elementsMax: number): XmlNode {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(body)
  } catch {
    throw s3Failure('MalformedXML', 'The XML is not valid UTF-8')
  }
  const top: XmlNode = { name: '', text: '', children: [] }
  const open = [top]
  let count = 0
  const parser = new SaxesParser({ fragment: false })
  parser.on('error', () => {
    throw s3Failure('MalformedXML')
  })
  parser.on('doctype', () => {
    throw s3Failure('MalformedXML', 'A document type is not allowed')
  })
  parser.on('opentag', ({ name }) => {
    if (++count > elementsMax || open.length > DEPTH_MAX) throw s3Failure('MalformedXML', 'The XML holds too much')
    const node: XmlNode = { name: localName(name), text: '', children: [] }
    open.at(-1)?.children.push(node)
    open.push(node)
  })
  const addText = (more: string): void => {
    const node = open.at(-1)
    if (node) node.text += more
  }
  parser.on('text', addText)
  parser.on('cdata', addText)
  parser.on('closetag', () => void open.pop())
  parser.write(text).close()
  const [rootNode] = top.children
  if (rootNode?.name !== root) throw s3Failure('MalformedXML', `The root element must be ${root}`)
  return rootNode
}

/** Returns the text of the first child with this name, without surrounding white space. */
export const childText = (node: XmlNode, name: string): string | undefined =>
  node.children.find((child) => child.name === name)?.text.trim()
