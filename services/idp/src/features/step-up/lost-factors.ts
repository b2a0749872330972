import { html } from 'hono/html'

/** Help for users who have lost every second factor; the operator then runs `user reset --second-factor`. */
export const lostFactors = html`<details>
  <summary>Lost all of these?</summary>
  <p class="soft">
    Ask whoever runs this service to remove your second factor. Once they know that it is you, they give you a link to
    choose a new password. With that password alone you sign in, and set up an app or a passkey again.
  </p>
</details>`
