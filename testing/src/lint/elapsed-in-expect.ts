import { type Binary, type Call, type Declarator, nameOf, type Node, type RuleContext } from './syntax.ts'

const message =
  'A busy machine takes longer. Expect an order of events, counted work, or a time of a clock that the test moves.'

const isCallOf = (node: Node, name: string): boolean => node.type === 'CallExpression' && nameOf(node.callee) === name

/** Whether a difference says what has passed: one of a clock and something else than a number, which would be a moment. */
function isElapsed({ operator, left, right }: Binary): boolean {
  if (operator !== '-') return false
  const isClock = (node: Node): boolean => isCallOf(node, 'Date.now') || isCallOf(node, 'performance.now')
  return (isClock(left) && right.type !== 'Literal') || isClock(right)
}

/** Whether a node is within what `expect` is called with. */
function isExpected(node: Node): boolean {
  for (let [inner, outer] = [node, node.parent]; outer; [inner, outer] = [outer, outer.parent])
    if (outer.type === 'CallExpression' && /^expect(?:\.|$)/.test(nameOf(outer.callee) ?? '') && outer.callee !== inner)
      return true
  return false
}

/** Refuses `performance.now()`, `Date.now() - …` and `… - Date.now()` within `expect(…)`, and variables that hold such a difference. */
export const elapsedInExpect = {
  create(context: RuleContext) {
    const refuse = (node: Node): void => {
      if (isExpected(node)) context.report({ node, message })
    }
    return {
      CallExpression(node: Call) {
        if (isCallOf(node, 'performance.now')) refuse(node)
      },
      BinaryExpression(node: Binary) {
        // A call of performance.now() is refused by itself.
        if (isElapsed(node) && ![node.left, node.right].some((side) => isCallOf(side, 'performance.now'))) refuse(node)
      },
      VariableDeclarator(node: Declarator) {
        if (node.init?.type !== 'BinaryExpression' || !isElapsed(node.init)) return
        for (const { references } of context.sourceCode.getDeclaredVariables(node))
          for (const { identifier } of references) refuse(identifier)
      },
    }
  },
}
