import { defineHandler, html } from 'nitro/h3'

export default defineHandler(() => html`<h1>Prerendered</h1>`)
