import { mergeRoutes as mergeByVercel } from '@vercel/routing-utils'
import { expect, test } from 'vitest'
import { joinPhases, mergeRoutes } from './merge-routes.ts'

const route = (src: string, more: { check?: true; continue?: true; override?: true; dest?: string } = {}) => ({
  src,
  ...more,
})

test('routes of vercel.json come before those of Build Output in each phase, in the order of Vercel', () => {
  const users = [
    route('/u1'),
    { handle: 'filesystem' as const },
    route('/u2', { check: true, dest: '/x' }),
    { handle: 'error' as const },
    route('/u3'),
  ]
  const own = [
    route('/o1', { continue: true }),
    route('/o2', { check: true }),
    route('/o3'),
    route('/o4', { continue: true, override: true }),
    { handle: 'filesystem' as const },
    route('/o5'),
    { handle: 'hit' as const },
    route('/o6', { continue: true }),
  ]
  const merged = mergeRoutes(users, own)
  expect(merged).toEqual(mergeByVercel({ userRoutes: users, builds: [{ use: 'x', entrypoint: 'x', routes: own }] }))
  expect(merged.map((each) => each.src ?? each.handle)).toEqual([
    '/o1',
    '/u1',
    '/o2',
    '/o3',
    '/o4',
    'filesystem',
    '/u2',
    '/o5',
    'error',
    '/u3',
    'hit',
    '/o6',
  ])
})

test('lists of routes are joined phase by phase', () => {
  const lists = [[route('/a'), { handle: 'filesystem' as const }, route('/b')], [route('/c')], []]
  expect(joinPhases(...lists)).toEqual([route('/a'), route('/c'), { handle: 'filesystem' }, route('/b')])
})
