export const dynamic = 'force-dynamic'

export function GET(): never {
  throw new Error('a route handler that throws')
}
