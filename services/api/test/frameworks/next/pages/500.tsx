export default function ServerError() {
  return <h1>A page of the Pages Router broke, says the fixture</h1>
}
