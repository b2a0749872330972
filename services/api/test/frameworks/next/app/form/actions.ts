'use server'

import { refresh, revalidatePath, updateTag } from 'next/cache'
import { cookies } from 'next/headers'
import { redirect } from 'next/navigation'

export async function greet(_: string, form: FormData): Promise<string> {
  return `Hello ${String(form.get('name'))}`
}

export async function remember(form: FormData): Promise<void> {
  ;(await cookies()).set('who', String(form.get('who')))
  redirect('/visitor')
}

export async function renew(): Promise<void> {
  updateTag('time')
  refresh()
}

export async function renewPost(): Promise<void> {
  revalidatePath('/posts/2')
}
