import type { FunctionFailureCode } from '@platform/function-runtime/function-runtime'
import type { SitePage } from './site-page.ts'

/** The page for a visitor if a Function cannot answer, by code. Its log says more. */
const pages: Readonly<Record<FunctionFailureCode, Omit<SitePage, 'code'>>> = {
  function_crashed: {
    status: 502,
    title: 'This page crashed',
    text: 'The Function behind this address ended before it had answered.',
  },
  function_overloaded: {
    status: 503,
    title: 'This page is too busy',
    text: 'The Function behind this address has more requests than it can take. Try again in a moment.',
    headers: { 'retry-after': '1' },
  },
  function_timeout: {
    status: 504,
    title: 'This page took too long',
    text: 'The Function behind this address did not answer in time.',
  },
  function_out_of_memory: {
    status: 507,
    title: 'This page ran out of memory',
    text: 'The Function behind this address needs more memory than it may have.',
  },
}

/** For a client whose body does not arrive. The connection cannot be reused, since the rest of the body may still arrive. */
export const requestTimedOut: SitePage = {
  status: 408,
  title: 'This request did not arrive',
  text: 'The rest of what was being sent did not come in time.',
  code: 'request_timeout',
  headers: { connection: 'close' },
}

export const functionPage = (code: FunctionFailureCode): SitePage => ({ ...pages[code], code })
