'use server'

import { headers } from 'next/headers'
import { redirect } from 'next/navigation'
import { addressIn } from '../../address'

/** Leads to the page by its whole URL, and tells it what this action sees. */
export async function report(): Promise<void> {
  const address = addressIn(await headers())
  redirect(`${address.forwarded}/address?${new URLSearchParams({ action: JSON.stringify(address) })}`)
}
