import { platformName } from '@platform/look/name'

/**
 * The clients of the embedded platform. Their ids are the same on every machine, so scripts and documents may name them; the
 * only secret is random and stored in the data folder.
 */
export const clients = {
  cli: {
    id: '0198c0de-0000-7000-8000-0000000000c1',
    name: `${platformName} CLI`,
    // On loopback the port is free (RFC 8252 §7.3).
    redirectUri: 'http://127.0.0.1/callback',
  },
  console: {
    id: '0198c0de-0000-7000-8000-0000000000c2',
    name: `${platformName} console`,
    /** Below the console's origin: a web page, since its port is explicit (D110). */
    redirectPath: '/callback',
    postLogoutPath: '/',
  },
  docs: {
    id: '0198c0de-0000-7000-8000-0000000000c4',
    name: `${platformName} API reference`,
    /** The path of the page, below the API's origin. */
    redirectPath: '/docs',
  },
  confidential: {
    id: '0198c0de-0000-7000-8000-0000000000c3',
    name: 'Demo server application',
    redirectUri: 'http://localhost:3001/callback',
  },
} as const

export const demoEmail = 'demo@example.com'

/** The first label of the site that the demo account deploys. */
export const helloLabel = 'hello'
