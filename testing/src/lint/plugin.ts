import { elapsedInExpect } from './elapsed-in-expect.ts'
import { patience } from './patience.ts'
import { streamListener } from './stream-listener.ts'

/** Rules of this project, for oxlint's `jsPlugins`. */
export default {
  meta: { name: 'project' },
  rules: { 'elapsed-in-expect': elapsedInExpect, patience, 'stream-listener': streamListener },
}
