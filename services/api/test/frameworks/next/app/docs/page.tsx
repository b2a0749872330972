export default function Docs() {
  return <h1>Docs</h1>
}
