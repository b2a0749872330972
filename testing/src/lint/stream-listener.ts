import { type Call, type Creation, type Member, nameOf, type Node, type RuleContext } from './syntax.ts'

/** What gives a stream, by the last part of its name. */
const makers =
  /(?:^|\.)(?:create(?:Read|Write)Stream|createConnection|connect|create(?:Gzip|Gunzip|Brotli\w+|Deflate\w*|Inflate\w*))$/
const classes = /(?:^|\.)(?:Readable|Writable|Duplex|Transform|PassThrough|Socket)$/

const message =
  'Give this stream a listener of `error`, or a place in a pipeline: without one its first error ends the process.'

/** Whether `a.on('error', …)` or `a.once('error', …)` is called, where `a` is the node. */
function isHeard(node: Node): boolean {
  const member = node.parent
  if (member?.type !== 'MemberExpression' || member.object !== node) return false
  const call = member.parent
  if (call?.type !== 'CallExpression' || call.callee !== member) return false
  const [event] = call.arguments
  const isOn = member.property.type === 'Identifier' && /^(?:on|once|addListener)$/.test(member.property.name)
  // Listeners can be added one behind another.
  return (isOn && event?.type === 'Literal' && event.value === 'error') || (isOn && isHeard(call))
}

const isPiped = ({ parent }: Node & { parent: Node | null }): boolean =>
  parent?.type === 'CallExpression' && /(?:^|\.)pipeline$/.test(nameOf(parent.callee) ?? '')

/** Refuses a stream of which nobody hears its errors. */
export const streamListener = {
  create(context: RuleContext) {
    /** By the name of a child's stdin: where it is used first, and whether anything hears its errors. */
    const inputs = new Map<string, { node: Member; isHeard: boolean }>()
    const check = (node: Call | Creation): void => {
      const { parent } = node
      const uses: Node[] =
        parent?.type === 'VariableDeclarator'
          ? context.sourceCode
              .getDeclaredVariables(parent)
              .flatMap(({ references }) => references.map(({ identifier }) => identifier))
          : [node]
      if (!uses.some((use) => isHeard(use) || isPiped(use))) context.report({ node, message })
    }
    return {
      CallExpression(node: Call) {
        if (makers.test(nameOf(node.callee) ?? '')) check(node)
      },
      NewExpression(node: Creation) {
        if (classes.test(nameOf(node.callee) ?? '')) check(node)
      },
      // What a program is told: it may have ended, or not listen.
      MemberExpression(node: Member) {
        const name = nameOf(node)
        if (!name?.endsWith('.stdin') || name === 'process.stdin') return
        const told = inputs.get(name) ?? { node, isHeard: false }
        inputs.set(name, { node: told.node, isHeard: told.isHeard || isHeard(node) })
      },
      'Program:exit'() {
        for (const { node, isHeard: isAnyHeard } of inputs.values()) if (!isAnyHeard) context.report({ node, message })
      },
    }
  },
}
