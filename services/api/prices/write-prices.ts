import { writeFileSync } from 'node:fs'
import { knownProviders, licenceText, makePrices } from './make-prices.ts'

const feature = new URL('../src/areas/ai/governance/', import.meta.url)
writeFileSync(new URL('prices.json', feature), makePrices(knownProviders()))
writeFileSync(new URL('PRICES-LICENSE', feature), licenceText())
