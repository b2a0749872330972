import { BadRequest } from '@platform/errors/api-error'
import { checkedPassword } from '../accounts/passwords.ts'

/** A password that this user may have from now on. Throws BadRequest for one that is against the rules. */
export function checkedNewPassword(password: string, user: { email: string }): string {
  checkedPassword(password)
  if (password.toLowerCase() === user.email.toLowerCase())
    throw new BadRequest('The new password is your email address')
  return password
}
