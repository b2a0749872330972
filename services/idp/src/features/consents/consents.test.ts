import { scopeCatalogue } from '@platform/auth/scopes'
import type { Visit } from '@platform/testkit/browser'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { words } from '../../../test/page-words.ts'
import { startTestIdp, type TestIdp } from '../../../test/start.ts'

let idp: TestIdp
beforeAll(async () => {
  idp = await startTestIdp()
})
afterAll(() => idp.close())

/** The lines of the scope list: the scope's name and what a person reads. */
const linesOf = ({ body }: Visit) =>
  [...body.matchAll(/<li title="([^"]+)">(.*?)<\/li>/gs)].map(([, scope, text]) => [scope, words(text)])
async function consentPage(description: Parameters<TestIdp['client']>[0], parameters: Record<string, string>) {
  const client = await idp.client({ isFirstParty: false, ...description })
  const browser = await idp.signedIn(await idp.person())
  const page = await browser.follow(await browser.visit(idp.authorizeUrl(client, parameters)), idp.url)
  expect(page.url).toContain('/consent?')
  return { client, browser, page }
}

describe('what consent is asked for', () => {
  test.each([
    ['as the catalogue has them', [...scopeCatalogue]],
    ['what reads first', scopeCatalogue.toReversed()],
    ['by name', scopeCatalogue.toSorted()],
  ])('is shown in one order, whatever the request says (%s)', async (_, scopes) => {
    const { page } = await consentPage({}, { scope: scopes.join(' ') })
    expect(linesOf(page)).toEqual([
      ['platform:organizations:write', 'Create organizations Changes'],
      ['platform:members:write', 'Invite people to your organizations, and remove members Changes'],
      ['platform:api_keys:delete', 'Revoke API keys Deletes'],
      ['platform:api_keys:write', 'Create and revoke API keys Changes'],
      ['network:applications:write', 'Create applications and change their hostnames Changes'],
      ['network:env_vars:delete', 'Delete environment variables Deletes'],
      ['network:env_vars:write', 'Create and change environment variables Changes'],
      ['network:deployments:trigger', 'Deploy applications Changes'],
      ['network:deployments:write', 'Change deployments Changes'],
      ['network:storage:delete', 'Delete stored files Deletes'],
      ['network:storage:write', 'Store and change files Changes'],
      ['network:sticky_sessions:write', 'Pin visitors to a Function Changes'],
      ['network:ai_gateway:budgets', 'Change the AI budgets of your organizations Changes'],
      ['network:ai_gateway:policies', 'Change the AI policies of your organizations Changes'],
      ['network:ai_gateway:chat', 'Use AI models at the cost of your organization Costs money'],
      ['offline_access', 'Stay connected while you are away, until you disconnect it Lasting'],
      ['platform:organizations:read', 'See your organizations and their members'],
      ['platform:members:read', 'See who is invited to your organizations'],
      ['platform:api_keys:read', 'See API keys'],
      ['network:applications:read', 'See applications, hostnames, requests and activity'],
      ['network:env_vars:read', 'Read environment variables'],
      ['network:deployments:read', 'See deployments and their logs'],
      ['network:storage:read', 'Read stored files'],
      ['network:ai_gateway:models', 'See which AI models there are'],
      ['network:ai_gateway:usage', 'See the AI usage of your organizations'],
      ['openid profile email', 'See which account is yours, your name and picture, and your email address'],
    ])
  })

  test('sections without a line are left out, and one identity scope is one line', async () => {
    const { page } = await consentPage({}, { scope: 'openid network:storage:read' })
    expect([...page.body.matchAll(/<h3>(.*?)<\/h3>/g)].map(([, heading]) => heading)).toEqual([
      'Read',
      'Know who you are',
    ])
    expect(linesOf(page).at(-1)).toEqual(['openid', 'See which account is yours'])
  })
})
