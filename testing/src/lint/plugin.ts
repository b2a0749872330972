import { elapsedInExpect } from './elapsed-in-expect.ts'
import { patience } from './patience.ts'

/** Rules of this project's tests, for oxlint's `jsPlugins`. */
export default { meta: { name: 'tests' }, rules: { 'elapsed-in-expect': elapsedInExpect, patience } }
