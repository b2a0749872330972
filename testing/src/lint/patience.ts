import { type Call, nameOf, type Node, type RuleContext } from './syntax.ts'

/** Of `expect.poll` in every package; see `settings` of packages/test-runner. */
const PATIENCE_MS = 60_000

/** By the function: whether it has the project's patience without being told. */
const waits: Readonly<Record<string, boolean>> = { 'expect.poll': true, 'vi.waitFor': false, 'vi.waitUntil': false }

/** The literal that a call's options give as their timeout; undefined if there is none, NaN for what only a run can tell. */
function timeoutOf(options: Node | undefined): number | undefined {
  if (options === undefined) return undefined
  if (options.type === 'Literal') return Number(options.value)
  if (options.type !== 'ObjectExpression') return Number.NaN
  for (const { type, key, value } of options.properties) {
    if (type === 'SpreadElement') return Number.NaN
    if (key && nameOf(key) === 'timeout') return value?.type === 'Literal' ? Number(value.value) : Number.NaN
  }
  return undefined
}

/** Refuses a wait of a test that gives up before the project's patience ends: on a busy machine it fails by luck. */
export const patience = {
  create(context: RuleContext) {
    return {
      CallExpression(node: Call) {
        const name = nameOf(node.callee) ?? ''
        const isPatient = waits[name]
        if (isPatient === undefined) return
        const timeoutMs = timeoutOf(node.arguments[1]) ?? (isPatient ? PATIENCE_MS : 0)
        if (timeoutMs < PATIENCE_MS)
          context.report({
            node,
            message: `Let ${name} wait for at least ${PATIENCE_MS} ms: a busy machine needs them.`,
          })
      },
    }
  },
}
