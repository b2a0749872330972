import { remember, renew, renewPost } from './actions'
import { Greeting } from './greeting'

export default function Form() {
  return (
    <>
      <h1>Form</h1>
      <Greeting />
      <form action={remember} id="remember">
        <input name="who" />
        <button>Remember</button>
      </form>
      <form action={renew} id="renew">
        <button>Renew</button>
      </form>
      <form action={renewPost} id="renew-post">
        <button>Renew the post</button>
      </form>
    </>
  )
}
