import { html } from 'hono/html'

/** The way on for whoever has nothing left to show; what an operator does then is `user reset --second-factor`. */
export const lostFactors = html`<details>
  <summary>Lost all of these?</summary>
  <p class="soft">
    Ask whoever runs this service to remove your second factor. Once they know that it is you, they give you a link to
    choose a new password. With that password alone you sign in, and set up an app or a passkey again.
  </p>
</details>`
