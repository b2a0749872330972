export default function NotFound() {
  return <h1>Nothing is here, says the fixture</h1>
}
