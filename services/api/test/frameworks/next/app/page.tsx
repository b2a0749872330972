import { Counter } from './counter'

export default function Home() {
  return (
    <>
      <h1>Home</h1>
      <p id="public">{process.env.NEXT_PUBLIC_GREETING ?? 'no greeting'}</p>
      <Counter />
    </>
  )
}
