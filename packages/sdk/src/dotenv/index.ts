export { DotenvError, parseDotenv, readDotenv, writeDotenv } from './dotenv.ts'
export { problemOfKey, problemOfValue } from './variable.ts'
