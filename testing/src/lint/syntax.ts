/** The part of the syntax tree (ESTree) that the rules look at. Other nodes have other types, which no rule names. */
export type Node =
  | Identifier
  | { type: 'Literal'; value: unknown; parent: Node | null }
  | Member
  | Call
  | Creation
  | Binary
  | Declarator
  | { type: 'ObjectExpression'; properties: readonly Property[]; parent: Node | null }
  | { type: 'Program'; parent: null }

interface Identifier {
  type: 'Identifier'
  name: string
  parent: Node | null
}

export interface Member {
  type: 'MemberExpression'
  object: Node
  property: Node
  computed: boolean
  parent: Node | null
}

export interface Call {
  type: 'CallExpression'
  callee: Node
  arguments: readonly Node[]
  parent: Node | null
}

export interface Creation {
  type: 'NewExpression'
  callee: Node
  parent: Node | null
}

export interface Binary {
  type: 'BinaryExpression'
  operator: string
  left: Node
  right: Node
  parent: Node | null
}

interface Property {
  type: 'Property' | 'SpreadElement'
  key?: Node
  value?: Node
}

export interface Declarator {
  type: 'VariableDeclarator'
  init: Node | null
  parent: Node | null
}

/** What oxlint gives to a rule, as ESLint does. */
export interface RuleContext {
  report(problem: { node: Node; message: string }): void
  sourceCode: {
    getDeclaredVariables(node: Declarator): readonly { references: readonly { identifier: Node }[] }[]
  }
}

/** Returns `a.b` for a callee of that form, `a` for a name; undefined for anything else. */
export function nameOf(node: Node): string | undefined {
  if (node.type === 'Identifier') return node.name
  if (node.type !== 'MemberExpression' || node.computed) return undefined
  const [object, property] = [nameOf(node.object), nameOf(node.property)]
  return object === undefined || property === undefined ? undefined : `${object}.${property}`
}
