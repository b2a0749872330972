export default (): never => {
  throw new Error('a route that throws')
}
