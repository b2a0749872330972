export const load = (): never => {
  throw new Error('a page that throws')
}
